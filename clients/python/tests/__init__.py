"""Tests of the package: of its own rules against a scripted server, and of everything else against a real one."""
