package filing

import (
	"testing"

	"github.com/zkactors/zkactors/internal/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
