package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// benchImage is a container image of one static program.
const benchImage = "bothy-bench:latest"

// loadImage makes the image and starts a first sandbox from it, which makes its root.
func (l *life) loadImage(ctx context.Context) error {
	layer, err := trueLayer(ctx, l.work)
	if err != nil {
		return err
	}
	archive, err := dockerSave(benchImage, layer.Bytes())
	if err != nil {
		return err
	}
	path := filepath.Join(l.work, "image.tar")
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		return err
	}
	if err := l.bothy.do(ctx, "template", "load", path); err != nil {
		return err
	}
	return l.bothy.do(ctx, "run", "--rm", "-t", benchImage, "shell", l.dir, "--", "/true")
}

// dockerSave returns an archive of an image of one layer, as docker save writes it.
func dockerSave(name string, layer []byte) ([]byte, error) {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, err
	}
	called := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]map[string]any{{"Config": called, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		data []byte
	}{{called, config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
