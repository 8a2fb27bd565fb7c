package main

import (
	"cmp"
	"errors"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/zkactors/zkactors/bench/peers"
)

// A theme has the colours of a picture for pages in light or in dark.
type theme struct {
	name       string // the end of the file's name
	paper, ink color.Color
	lighter    float64 // part of the ink in the colours of systems
}

func themes() []theme {
	return []theme{
		{"", color.White, color.RGBA{31, 35, 40, 255}, 0},
		{"-dark", color.RGBA{13, 17, 23, 255}, color.RGBA{201, 209, 217, 255}, 0.25},
	}
}

// mixed returns a colour that has a part of another one.
func mixed(c, other color.Color, part float64) color.Color {
	mix := func(a, b uint32) uint8 { return uint8(((1-part)*float64(a) + part*float64(b)) / 257) }
	r, g, b, _ := c.RGBA()
	r2, g2, b2, _ := other.RGBA()
	return color.RGBA{mix(r, r2), mix(g, g2), mix(b, b2), 255}
}

// of returns the colour of a library.
func (t theme) of(l peers.Library) color.Color { return mixed(palette(string(l)), t.ink, t.lighter) }

// panel returns an empty chart of one workload.
func (t theme) panel(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = vg.Points(9)
	p.BackgroundColor = t.paper
	p.Title.TextStyle.Color = t.ink
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color = t.ink, t.ink
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = t.ink, t.ink
		axis.Tick.Label.Font.Size = vg.Points(7)
	}
	return p
}

// An entry is one entry of a legend.
type entry struct {
	name  string
	thumb plot.Thumbnailer
}

const (
	panelsEach  = 3 // in a line
	panelHeight = 4.2 * vg.Centimeter
	wide        = 18 * vg.Centimeter
	above       = 1.6 * vg.Centimeter // the title and the legend
)

// save writes panels in lines, below a title and one legend for all.
func (t theme) save(file, title string, legend []entry, panels []*plot.Plot) error {
	lines := (len(panels) + panelsEach - 1) / panelsEach
	grid := make([][]*plot.Plot, lines)
	for i := range lines * panelsEach {
		p := (*plot.Plot)(nil)
		if i < len(panels) {
			p = panels[i]
		}
		grid[i/panelsEach] = append(grid[i/panelsEach], p)
	}
	height := above + vg.Length(lines)*panelHeight
	svg := vgsvg.New(wide, height)
	page := draw.New(svg)
	page.SetColor(t.paper)
	page.Fill(page.Path())
	style := t.panel("").Title.TextStyle
	style.YAlign = draw.YTop
	style.Font.Size = vg.Points(11)
	page.FillText(style, vg.Point{X: wide / 2, Y: height - 0.15*vg.Centimeter}, title)
	for i, e := range legend {
		l := plot.NewLegend()
		l.TextStyle.Color, l.TextStyle.Font.Size = t.ink, vg.Points(9)
		l.Left, l.Top = true, true
		l.Add(e.name, e.thumb)
		left := vg.Centimeter + vg.Length(i)*(wide-vg.Centimeter)/vg.Length(len(legend))
		l.Draw(draw.Crop(page, left, 0, 0, -0.9*vg.Centimeter))
	}
	pad := 0.3 * vg.Centimeter
	tiles := draw.Tiles{Rows: lines, Cols: panelsEach, PadX: pad, PadY: pad, PadLeft: pad, PadRight: pad, PadBottom: pad}
	canvases := plot.Align(grid, tiles, draw.Crop(page, 0, 0, 0, -above))
	for i, p := range panels {
		p.Draw(canvases[i/panelsEach][i%panelsEach])
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = svg.WriteTo(out)
	return errors.Join(err, out.Close())
}

// plot writes the pictures of a comparison into dir, each in both themes.
func (c *comparison) plot(dir string) (all []picture, err error) {
	if len(c.rows) == 0 {
		return nil, nil
	}
	for kind, paint := range map[string]func(theme, string) error{"curves": c.curves, "bars": c.bars} {
		var files []string
		for _, t := range themes() {
			file := filepath.Join(dir, fileName(c.kind, "by distance", kind)+t.name+".svg")
			files = append(files, file)
			err = errors.Join(err, paint(t, file))
		}
		all = append(all, picture{file: files[0], dark: files[1], title: "operations/s by distance, " + kind, servers: c.kind, after: byDistance})
	}
	slices.SortFunc(all, func(a, b picture) int { return cmp.Compare(b.file, a.file) }) // the curves first
	return all, err
}

// byDistance stands for the name of a workload in pictures that have many.
const byDistance = "by distance"

// curves draws the operations per second over the distance: for each workload a panel, with a curve
// for each library.
func (c *comparison) curves(t theme, file string) error {
	var panels []*plot.Plot
	var names []string
	for _, d := range c.distances {
		names = append(names, column(d))
	}
	legend := make(map[peers.Library]entry)
	for _, row := range c.rows {
		p := t.panel(row.workload.name)
		least, most := math.Inf(1), 0.0
		for _, l := range slices.Backward(peers.Libraries()) { // this library on top
			var points plotter.XYs
			for i, d := range c.distances {
				if r, ok := row.fastest(d, l); ok {
					points = append(points, plotter.XY{X: float64(i), Y: r.OpsPerS})
					least, most = min(least, r.OpsPerS), max(most, r.OpsPerS)
				}
			}
			if len(points) == 0 {
				continue
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, line.Width = t.of(l), vg.Points(1.5)
			dots.Color, dots.Shape, dots.Radius = t.of(l), draw.CircleGlyph{}, vg.Points(2)
			p.Add(line, dots)
			legend[l] = entry{string(l), line}
		}
		p.NominalX(names...)
		p.X.Min, p.X.Max = 0, float64(len(names)-1)
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
		if p.Y.Min == p.Y.Max {
			p.Y.Max *= 10
		}
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
		panels = append(panels, p)
	}
	return t.save(file, "operations/s by round trip, "+c.kind, entries(legend), panels)
}

// room keeps a label away from its axis, also in a font that is wider than the one of gonum.
const room = "   "

// decades are the ticks of a logarithmic axis, with the numbers of the tables.
type decades struct{}

// Ticks implements [plot.Ticker].
func (decades) Ticks(least, most float64) (ticks []plot.Tick) {
	for e := math.Round(math.Log10(least)); math.Pow(10, e) <= most; e++ {
		at := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: at, Label: figure(at) + room})
		for n := 2.0; n < 10 && n*at < most; n++ {
			ticks = append(ticks, plot.Tick{Value: n * at})
		}
	}
	return ticks
}

// entries returns the entries of a legend, this library's first.
func entries(of map[peers.Library]entry) (all []entry) {
	for _, l := range peers.Libraries() {
		if e, ok := of[l]; ok {
			all = append(all, e)
		}
	}
	return all
}

// sideBySide returns the two distances of the bars: the first one, and the other nearest to 1 ms.
func (c *comparison) sideBySide() [2]time.Duration {
	from := func(d time.Duration) time.Duration { return (d - time.Millisecond).Abs() }
	other := slices.MinFunc(c.distances[1:], func(a, b time.Duration) int { return int(from(a) - from(b)) })
	return [2]time.Duration{c.distances[0], other}
}

// bars draws the operations per second at two distances: for each workload a panel, with two bars
// for each library.
func (c *comparison) bars(t theme, file string) error {
	const width = 7.0 // points
	beside := func(i int) vg.Length { return vg.Points(width * (0.5 - float64(i))) }
	two := c.sideBySide()
	var panels []*plot.Plot
	var legend []entry
	for i, d := range two {
		bar, err := plotter.NewBarChart(plotter.Values{1}, vg.Points(width))
		if err != nil {
			return err
		}
		bar.Color, bar.LineStyle.Width = t.shade(t.ink, i), 0
		legend = append(legend, entry{column(d), bar})
	}
	for _, row := range c.rows {
		p := t.panel(row.workload.name)
		var names []string
		var ends [2]plotter.XYLabels
		for _, l := range slices.Backward(peers.Libraries()) { // this library at the top
			found := false
			for i, d := range two {
				r, ok := row.fastest(d, l)
				if !ok {
					continue
				}
				bar, err := plotter.NewBarChart(plotter.Values{r.OpsPerS}, vg.Points(width))
				if err != nil {
					return err
				}
				bar.Horizontal, bar.XMin = true, float64(len(names))
				bar.Offset = beside(i)
				bar.Color, bar.LineStyle.Width = t.shade(t.of(l), i), 0
				p.Add(bar)
				ends[i].XYs = append(ends[i].XYs, plotter.XY{X: r.OpsPerS, Y: float64(len(names))})
				ends[i].Labels = append(ends[i].Labels, figure(r.OpsPerS))
				found = true
			}
			if found {
				names = append(names, string(l)+room)
			}
		}
		if len(names) == 0 { // only the other distances have results
			continue
		}
		for i, end := range ends {
			labels, err := plotter.NewLabels(end)
			if err != nil {
				return err
			}
			for i := range labels.TextStyle {
				labels.TextStyle[i].Color, labels.TextStyle[i].Font.Size = t.ink, vg.Points(6)
				labels.TextStyle[i].YAlign = draw.YCenter
			}
			labels.Offset = vg.Point{X: vg.Points(2), Y: beside(i)}
			p.Add(labels)
		}
		p.NominalY(names...)
		p.X.Min = 0
		p.X.Max *= 1.25 // for the labels
		p.Y.Min, p.Y.Max = -0.6, float64(len(names))-0.4
		p.X.Tick.Marker = plot.ConstantTicks(nil) // the labels say more
		p.X.Width = 0
		panels = append(panels, p)
	}
	return t.save(file, "operations/s, "+c.kind, legend, panels)
}

// shade returns the colour of a bar: full at the first distance, and pale at the other.
func (t theme) shade(c color.Color, distance int) color.Color {
	if distance == 0 {
		return c
	}
	return mixed(c, t.paper, 0.5)
}
