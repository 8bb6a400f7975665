"""Two real nodes on one machine: images, kubelets, their network."""
