"""The version of this package. make generate sets it from client/VERSION."""

__version__ = "0.1.0"
