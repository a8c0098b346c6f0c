"""Makes Kibana 8 dashboards over what `ccmix index` writes: data views, charts, controls and
links, in one file.
"""
