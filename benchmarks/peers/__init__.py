"""Programs that train the same model with other libraries, each printing its rate as JSON.

They run in an environment of their own, which has those libraries and not Paceline.
"""
