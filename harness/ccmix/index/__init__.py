"""An archive as Elasticsearch documents: a copy, for exploring, that can be deleted and made again from the archive."""
