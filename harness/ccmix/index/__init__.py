"""Sends an archive as Elasticsearch documents: a copy for exploring, which can be deleted and sent
again.
"""
