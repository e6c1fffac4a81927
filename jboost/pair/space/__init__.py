"""Exact combination of three classifiers (Boyarshinov and Magdon-Ismail 2005, Theorem 4.1): the
plane of least weight, and its largest margin.

Why it is enough to turn planes about axes through two points: let S be the own side of an optimal
separator that keeps an own point (else a constant is as good). Its normal may be turned a little,
for S is open in the normal, until no two distinct points lie at one height. Move the plane towards
the own side until it meets its first own point a, a *centre*; only points of the other class were
passed, which lowers the loss, and nothing but a's place lies on the plane. So the optimum is found
among the planes through some centre whose normal is off all the great circles {v : v.(b - a) = 0},
with all that lies at a on the own side. These normals fall into the open cells of an arrangement of
great circles. Each cell has an edge, an arc of the circle of some *second* point b: there the plane
contains the *axis* from a through b, meets no point off it, and lies between two events of a line
that turns about a in the projection along the axis. The cell is the arc tilted off its circle,
which sends all points on the axis beyond a to one side and all those behind a to the other: two
tilts. So every optimal separator is a class (axis, open interval of angles, orientation, tilt),
coplanar, collinear and repeated points included; no plane with points on it need be looked at, for
ties of angles never open an interval.

`problem` scales the data, `axes` projects along an axis, `sweep` bounds the least loss round every
axis, `visits` settles the axes that matter and compares margins by `hulls`, `plane` writes the
result. `search` finds the axes that can matter by branch and bound over `cells` of planes: the
planes through a centre and a second point whose normals lie in the arc of an optimal class are
optimal but for the points on them, and every cell with one of these survives.
"""

from jboost.pair.space.separator import optimal_plane, optimal_plane_by_cells, validate_options

__all__ = ["optimal_plane", "optimal_plane_by_cells", "validate_options"]
