"""Defines each type of chart once, in Vega-Lite, for HTML reports, image files and Kibana."""
