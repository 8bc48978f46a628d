"""Groups over the network, seconds of their collectives, and what overlap hides of them."""
