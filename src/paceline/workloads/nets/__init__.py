"""The networks themselves, as torch modules; imported only when a workload is made live."""
