"""Kernels that are compiled once and launched many times. ``async_compile`` compiles kernels from records of operations,
``kernel_runner`` runs them, and ``job_plan`` implements ``_C.prepare_kernel`` and ``_C.launch_jobplan``.
"""
