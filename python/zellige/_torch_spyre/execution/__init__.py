"""Kernels that are compiled once and launched many times: ``async_compile`` makes them of records of operations,
``kernel_runner`` runs them, and ``job_plan`` is what ``_C.prepare_kernel`` and ``_C.launch_jobplan`` do.
"""
