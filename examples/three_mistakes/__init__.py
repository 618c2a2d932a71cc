"""Which of four made-up languages is a word of? A small training program over several files."""
