package receipt

// SignManifest signs the text of a manifest.
func (k SigningKey) SignManifest(text []byte) []byte { return k.sign(manifestContext, text) }
