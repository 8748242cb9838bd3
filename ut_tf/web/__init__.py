"""A web server within limits of size, time and number; the routes are handed in."""
