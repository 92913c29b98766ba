// A chair in a room, with glass and mirror, and hundreds of objects made by loops.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 6 }
#declare Seed = seed(1);
camera { location <2.5, 2.2, -4.5> look_at <0, 0.7, 0> angle 45 }
light_source { <5, 8, -6> color rgb 1 }
light_source { <-4, 6, -2> color rgb 0.4 }
plane { y, 0 pigment { checker color rgb 0.9, color rgb 0.35 } finish { reflection 0.15 } }
#declare Wood = texture {
  pigment { wood turbulence 0.08 scale 0.12
    color_map { [0 color rgb <0.55, 0.32, 0.14>] [1 color rgb <0.30, 0.16, 0.07>] } }
  finish { phong 0.4 }
}
#declare Leg = cylinder { <0, 0, 0>, <0, 0.9, 0>, 0.05 }
union {
  #for (I, 0, 1) #for (J, 0, 1)
    object { Leg translate <I - 0.5, 0, J - 0.5> }
  #end #end
  difference {
    box { <-0.6, 0.85, -0.6>, <0.6, 0.95, 0.6> }
    sphere { <0, 1.9, 0>, 1.0 }
  }
  #for (I, 0, 6)
    cylinder { <-0.48 + I * 0.16, 0.95, 0.52>, <-0.48 + I * 0.16, 1.9, 0.62>, 0.03 }
  #end
  box { <-0.6, 1.85, 0.55>, <0.6, 2.0, 0.68> }
  texture { Wood }
  rotate y * 25
}
#for (I, 1, 600)
  #declare Place = <8 * rand(Seed) - 4, 0.05 + 3 * rand(Seed), 1.5 + 5 * rand(Seed)>;
  sphere {
    Place, 0.05 + 0.12 * rand(Seed)
    #if (mod(I, 5) = 0)
      pigment { color rgbt <0.9, 0.95, 1, 0.85> } finish { reflection 0.1 } interior { ior 1.5 }
    #else
      pigment { color rgb <rand(Seed), rand(Seed), rand(Seed)> } finish { phong 0.6 }
    #end
  }
#end
