"""Makes the dashboards of Kibana 8 for the data that `ccmix index` writes to Elasticsearch."""
