"""Knowledge of torch as data and small parsers; never imports torch."""
