"""Making room: trials with other pods, victims, budgets, nominations."""
