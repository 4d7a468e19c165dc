package audit

// SignManifest signs the text of a manifest.
func (k Key) SignManifest(text []byte) []byte { return k.sign(manifestContext, text) }
