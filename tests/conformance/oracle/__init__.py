"""What kube-scheduler itself says: generators of questions, and a Go program that answers them."""
