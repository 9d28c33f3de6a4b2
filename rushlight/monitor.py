"""torch.monitor: events that handlers get, and statistics that log themselves as events.

>>> stat = Stat("loss", [MEAN, COUNT], datetime.timedelta(hours=1), 2)
>>> handle = register_event_handler(lambda event: print(event.name, sorted(event.data.items())))
>>> stat.add(1.0)
>>> stat.add(2.0)
torch.monitor.Stat [('loss.count', 2), ('loss.mean', 1.5)]
>>> unregister_event_handler(handle)
"""
