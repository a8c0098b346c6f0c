"""Sends an archive to Elasticsearch: a copy for exploring, which can be deleted and sent again."""
