"""Defines each type of chart once, in Vega-Lite, for the HTML report, for files and for
Kibana's panels.
"""
