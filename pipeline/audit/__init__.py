"""Audit: the laws that an output keeps, checked part by part; texts are never kept, only what each document has."""
