"""Strategies without servers: each worker keeps all parameters, gradients are averaged."""
