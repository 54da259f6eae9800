"""One activity: what is asked, how it is decided, that what was judged is what runs, and its record."""
