"""Facts about a running program: its frames, the expressions they evaluate, who holds which tensor."""
