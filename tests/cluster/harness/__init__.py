"""What the tests on a real control plane stand on: its processes, proxies, loads and observers."""
