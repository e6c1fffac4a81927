"""Exact combination of three classifiers (Boyarshinov and Magdon-Ismail 2005, Theorem 4.1): the
plane of least weight, and its largest margin.

It suffices to rotate planes about axes through two points:

1. Let S be the own side of an optimal separator that keeps an own point. (If no own point is kept,
   a constant classifier is as good.) A small rotation of the plane does not change S. Rotate the
   normal until no two distinct points have the same height.
2. Move the plane towards the own side until it meets the first own point a, the *centre*. It passes
   only points of the other class, so that the loss does not grow. Only points at the position of a
   are on the plane.
3. The optimum is therefore attained by planes through some centre a, with all points at a on the
   own side, whose normal is on none of the great circles {v : v.(b - a) = 0}. These great circles
   divide the normals into open cells.
4. Each cell has an edge, which is an arc of the circle of some *second* point b. A plane with its
   normal on this arc contains the *axis* from a through b and meets no point off the axis. In the
   projection along the axis it is a line through a, between two successive directions of points.
5. The cell is reached from the arc by a tilt of the plane. The tilt moves all points on the axis
   beyond a to one side and all points on it behind a to the other side. There are two tilts.

Every optimal separator is hence a class (axis, open interval of angles, orientation, tilt). This
includes coplanar, collinear and repeated points. Planes with further points on them need not be
considered, because equal angles never bound an open interval.

`problem` scales the data. `axes` projects along an axis. `sweep` bounds the least loss around every
axis. `visits` evaluates the axes that may be optimal and compares margins by `hulls`. `plane`
computes the result. `search` restricts the axes by branch and bound over `cells` of planes.
Consider the planes through a centre and a second point whose normals are in the arc of an optimal
class. They are optimal except for the points on them, and every cell that contains one of them is
kept.
"""

from jboost.pair.space.search import PlaneSearchState
from jboost.pair.space.separator import optimal_plane, optimal_plane_by_cells, validate_config

__all__ = ["PlaneSearchState", "optimal_plane", "optimal_plane_by_cells", "validate_config"]
