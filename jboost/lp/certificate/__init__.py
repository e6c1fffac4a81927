"""Proven bounds from any primal and dual point: residuals, repair, implied bounds, status."""
