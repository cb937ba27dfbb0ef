"""What a comparison found, for people: pictures, a page that needs nothing else, Markdown, a table for the terminal."""
