"""How a class did: by task, and as a whole."""
