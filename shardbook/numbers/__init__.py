"""Number formats, rounding and units: pure Python, so that they also run in the browser."""
