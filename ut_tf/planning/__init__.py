"""What a training needs before it is begun: parameters, operations, memory, time and cost."""
