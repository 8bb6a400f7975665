"""A simulated year of an autoscaled cluster: does a process that lives for years grow or slow down?

``make endurance``. Start with ``year``, which runs the simulation and takes a sample a day;
``verdict`` compares the last week with the second one, and ``chart`` draws all of it.
"""
