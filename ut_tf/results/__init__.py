"""Kept results: records of finished runs, and the tables of pages that are written from them."""
