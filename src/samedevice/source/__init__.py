"""Reading code: parsing, names, edits, suppression comments, which files."""
