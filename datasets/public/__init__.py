"""Readers of public measurements that are not part of the package: the user gives the folder."""
