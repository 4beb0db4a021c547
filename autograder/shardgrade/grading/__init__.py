"""Grade one submission: notebook and source notebook in, result out."""
