"""What runs when: actions on streams with dependencies, and the memory that follows from them.

Pure Python with the standard library only, so that it also runs in the browser.
"""
