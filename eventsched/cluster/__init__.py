"""Where nodes and pods come from: manifests, traces, generated loads, API objects."""
