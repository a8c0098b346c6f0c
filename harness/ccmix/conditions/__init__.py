"""What a run changes on a host: context managers that write their undo to the journal before they change anything."""
