"""The shell around the engine: finding plugins, the one writer, simulation, evaluation."""
