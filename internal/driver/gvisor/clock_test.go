package gvisor

import (
	"reflect"
	"testing"
	"unsafe"

	"gvisor.dev/gvisor/pkg/sentry/kernel"
)

// TestClockPage fails if gVisor has moved the page.
func TestClockPage(t *testing.T) {
	k, page := new(kernel.Kernel), new(kernel.VDSOParamPage)
	f, ok := reflect.TypeFor[kernel.Kernel]().FieldByName(clockPageField)
	if !ok || f.Type != reflect.TypeOf(page) {
		t.Fatalf("the page is not where it was: %v", f)
	}
	if clockPage(k) != nil {
		t.Error("a kernel without a page has one")
	}
	reflect.NewAt(f.Type, unsafe.Add(unsafe.Pointer(k), f.Offset)).Elem().Set(reflect.ValueOf(page))
	if clockPage(k) != page {
		t.Error("it is not found")
	}
}
