"""Programs of several processes: what each of them found, and one report of it all. Never imports torch."""
