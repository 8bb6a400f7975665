"""The oracle: generators of questions, and a Go program that answers them with upstream's code."""
