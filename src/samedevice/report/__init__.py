"""Renderers: records to text; one function a format."""
