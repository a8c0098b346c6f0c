"""Charts: each type defined once, in Vega-Lite, for the HTML report, for files and for Kibana's panels."""
