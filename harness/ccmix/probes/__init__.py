"""What is recorded beside the traffic. A probe leaves raw text; tables are made of it afterwards, elsewhere."""
