"""What the hot path counts: plain numbers on objects that it holds anyhow; anybody may read them."""
